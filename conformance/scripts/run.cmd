@echo off
rem Runs run.ps1 where the execution policy of PowerShell forbids scripts. Options are those of run.ps1.
powershell.exe -NoProfile -ExecutionPolicy Bypass -File "%~dp0run.ps1" %*
set code=%errorlevel%
rem A double click gives no option, and would close the window at once.
setlocal EnableDelayedExpansion
if "%~1"=="" if not "!cmdcmdline:%~nx0=!"=="!cmdcmdline!" pause
exit /b %code%
