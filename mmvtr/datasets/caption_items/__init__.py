"""Items that are known by what people say of them: words in the place of frames."""
