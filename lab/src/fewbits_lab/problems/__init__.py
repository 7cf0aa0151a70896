"""Problems that compressed descent is run on, and descent itself."""
