@echo off
rem Runs run.ps1 where the execution policy of PowerShell forbids scripts. Options are those of run.ps1.
powershell.exe -NoProfile -ExecutionPolicy Bypass -File "%~dp0run.ps1" %*
