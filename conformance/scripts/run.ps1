<#
.SYNOPSIS
Runs every model of this folder with DxDispatch, DirectML's command-line runner, and keeps the results in results\.
.DESCRIPTION
For each model NAME, results\ gets NAME.bin (the output), NAME.out and NAME.err (DxDispatch's standard output and error) and
NAME.exit (its exit code, or "timeout"). A model that fails does not stop the others. README.txt says what to do with the results.
.EXAMPLE
.\run.ps1 -DxDispatch C:\tools\dxdispatch\dxdispatch.exe -Adapter "Microsoft Basic Render Driver"
#>
param(
    # Path of DxDispatch; by default dxdispatch.exe beside this script, or on PATH.
    [string]$DxDispatch = "",
    # A part of the adapter's name; by default DxDispatch chooses. `dxdispatch.exe -s` lists the adapters.
    [string]$Adapter = "",
    # Turns on the debug layers of Direct3D and DirectML, which say why a descriptor is refused.
    [switch]$DebugLayers,
    # Time limit of each model in seconds.
    [int]$TimeoutSeconds = 60
)

$ErrorActionPreference = "Stop"
if (-not $DxDispatch) {
    $DxDispatch = Join-Path $PSScriptRoot "dxdispatch.exe"
    if (-not (Test-Path -PathType Leaf -LiteralPath $DxDispatch)) { $DxDispatch = "dxdispatch.exe" }
}
$command = Get-Command -Name $DxDispatch -CommandType Application -ErrorAction SilentlyContinue | Select-Object -First 1
if (-not $command) {
    [Console]::Error.WriteLine("run.ps1: '$DxDispatch' is no program: see README.txt, and name DxDispatch's with -DxDispatch PATH")
    exit 2
}
$program = $command.Source
$results = Join-Path $PSScriptRoot "results"
$null = New-Item -ItemType Directory -Force -Path $results

$options = ""
if ($Adapter) { $options += " -a `"$Adapter`"" }
if ($DebugLayers) { $options += " -d" }

$models = @(Get-ChildItem -Path (Join-Path $PSScriptRoot "models") -Filter "*.json" | Sort-Object -Property Name)
$failed = 0
$done = 0
foreach ($model in $models) {
    $name = $model.BaseName
    $result = Join-Path $results $name
    foreach ($ending in "bin", "out", "err", "exit") {
        Remove-Item -Force -ErrorAction SilentlyContinue -Path "$result.$ending"
    }
    try {
        $process = Start-Process -FilePath $program -ArgumentList "models/$name.json$options" -WorkingDirectory $PSScriptRoot `
            -NoNewWindow -PassThru -RedirectStandardOutput "$result.out" -RedirectStandardError "$result.err"
        $null = $process.Handle # without this, Windows PowerShell loses the exit code
        if ($process.WaitForExit($TimeoutSeconds * 1000)) {
            $process.WaitForExit()
            $code = [string]$process.ExitCode
        }
        else {
            $process.Kill()
            $process.WaitForExit()
            $code = "timeout"
        }
    }
    catch {
        $code = "not started"
        [System.IO.File]::WriteAllText("$result.err", $_.Exception.Message)
    }
    [System.IO.File]::WriteAllText("$result.exit", $code)
    if ($code -ne "0") { $failed += 1 }
    $done += 1
    Write-Progress -Activity "DxDispatch" -Status "$name ($done of $($models.Count))" -PercentComplete (100 * $done / $models.Count)
}
Write-Host "$done models were run, $failed of them ended with an error. Next: send back the folder `"$PSScriptRoot`", whole"
