"""The report of `dmlgather check`: checking files, configuration, baseline, and output formats."""
