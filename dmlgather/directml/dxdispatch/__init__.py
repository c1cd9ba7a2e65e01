"""DxDispatch model files: reading with positions, checking and writing."""
