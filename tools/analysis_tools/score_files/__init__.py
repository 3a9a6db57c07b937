"""Score files of other tools: formats that are read, and messages for formats that are not."""
