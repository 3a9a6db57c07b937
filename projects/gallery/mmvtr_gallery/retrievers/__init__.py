"""Retrievers of LangChain, LlamaIndex and Haystack that wrap a fitted gallery, one module each."""
