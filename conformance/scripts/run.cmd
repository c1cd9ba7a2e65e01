@echo off
rem Runs run.ps1 even if PowerShell's execution policy forbids scripts. The options are those of run.ps1.
powershell.exe -NoProfile -ExecutionPolicy Bypass -File "%~dp0run.ps1" %*
set code=%errorlevel%
rem After a double click (no options), wait for a key: the window would close at once.
setlocal EnableDelayedExpansion
if "%~1"=="" if not "!cmdcmdline:%~nx0=!"=="!cmdcmdline!" pause
exit /b %code%
