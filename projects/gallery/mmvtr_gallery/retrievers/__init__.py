"""A fitted gallery as retriever of LangChain, LlamaIndex and Haystack, one module each."""
