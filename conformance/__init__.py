"""Cases for DxDispatch on Windows, and what DirectML made of them: its own judgement of what dmlgather computes and decides."""
