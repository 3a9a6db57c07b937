"""A retriever as a folder that others can load: weights, config and model card, without code."""

from mmvtr.apis.pretrained.folder import Saved, read_saved, save_pretrained
from mmvtr.apis.pretrained.transfer import (
    check_repo_id,
    fetch,
    from_pretrained,
    is_repo_id,
    load_saved,
    local_folder,
    push_to_hub,
)
from mmvtr.registry import own_names

__all__ = own_names(globals())
