"""Problems of OpenVINO's operations."""
