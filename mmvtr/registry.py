"""The registries of scope ``mmvtr``: children of mmengine's roots.

Each one imports its ``locations`` on the first ``build``, so that importing
``mmvtr`` costs nothing and a downstream project needs no more than
``custom_imports = dict(imports=['mmvtr.registry'])`` to write
``type='mmvtr.X'``.  Losses, heads and supervisions are models.  The last three hold nothing of
their own: without them mmengine warns at each start that the scope lacks them.
"""

from mmengine.registry import DATA_SAMPLERS as MMENGINE_DATA_SAMPLERS
from mmengine.registry import DATASETS as MMENGINE_DATASETS
from mmengine.registry import FUNCTIONS as MMENGINE_FUNCTIONS
from mmengine.registry import HOOKS as MMENGINE_HOOKS
from mmengine.registry import LOOPS as MMENGINE_LOOPS
from mmengine.registry import METRICS as MMENGINE_METRICS
from mmengine.registry import MODEL_WRAPPERS as MMENGINE_MODEL_WRAPPERS
from mmengine.registry import MODELS as MMENGINE_MODELS
from mmengine.registry import OPTIM_WRAPPER_CONSTRUCTORS as MMENGINE_OPTIM_WRAPPER_CONSTRUCTORS
from mmengine.registry import OPTIM_WRAPPERS as MMENGINE_OPTIM_WRAPPERS
from mmengine.registry import OPTIMIZERS as MMENGINE_OPTIMIZERS
from mmengine.registry import PARAM_SCHEDULERS as MMENGINE_PARAM_SCHEDULERS
from mmengine.registry import TASK_UTILS as MMENGINE_TASK_UTILS
from mmengine.registry import TRANSFORMS as MMENGINE_TRANSFORMS
from mmengine.registry import VISBACKENDS as MMENGINE_VISBACKENDS
from mmengine.registry import VISUALIZERS as MMENGINE_VISUALIZERS
from mmengine.registry import Registry

import mmvtr.hub  # noqa: F401 - mmengine's readers of configs know `mmvtr::`

MODELS = Registry('model', parent=MMENGINE_MODELS, locations=['mmvtr.models'])
DATASETS = Registry('dataset', parent=MMENGINE_DATASETS, locations=['mmvtr.datasets'])
DATA_SAMPLERS = Registry(
    'data sampler', parent=MMENGINE_DATA_SAMPLERS, locations=['mmvtr.datasets']
)
TRANSFORMS = Registry('transform', parent=MMENGINE_TRANSFORMS, locations=['mmvtr.datasets'])
FUNCTIONS = Registry('function', parent=MMENGINE_FUNCTIONS, locations=['mmvtr.datasets'])
TASK_UTILS = Registry('task util', parent=MMENGINE_TASK_UTILS, locations=['mmvtr.datasets'])
METRICS = Registry('metric', parent=MMENGINE_METRICS, locations=['mmvtr.evaluation'])
HOOKS = Registry('hook', parent=MMENGINE_HOOKS, locations=['mmvtr.engine'])
LOOPS = Registry('loop', parent=MMENGINE_LOOPS, locations=['mmvtr.engine'])
OPTIMIZERS = Registry('optimizer', parent=MMENGINE_OPTIMIZERS, locations=['mmvtr.engine'])
OPTIM_WRAPPERS = Registry(
    'optimizer wrapper', parent=MMENGINE_OPTIM_WRAPPERS, locations=['mmvtr.engine']
)
PARAM_SCHEDULERS = Registry(
    'parameter scheduler', parent=MMENGINE_PARAM_SCHEDULERS, locations=['mmvtr.engine']
)
OPTIM_WRAPPER_CONSTRUCTORS = Registry(
    'optimizer wrapper constructor',
    parent=MMENGINE_OPTIM_WRAPPER_CONSTRUCTORS,
    locations=['mmvtr.engine'],
)

MODEL_WRAPPERS = Registry('model wrapper', parent=MMENGINE_MODEL_WRAPPERS)
VISUALIZERS = Registry('visualizer', parent=MMENGINE_VISUALIZERS)
VISBACKENDS = Registry('vis backend', parent=MMENGINE_VISBACKENDS)
