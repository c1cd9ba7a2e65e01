"""DxDispatch model files: reading them with file positions, checking them, writing them."""
