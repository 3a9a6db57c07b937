"""A list of texts that begins with what is surely true, by the words of the gallery itself."""

from __future__ import annotations

from typing import Any, Mapping, Optional

from mmengine.runner import Runner

from mmvtr.engine.evaluation import Evaluation
from mmvtr.engine.score_transforms import TransformHook, check_temperature, temperature_of
from mmvtr.evaluation.length_bias import read_annotations
from mmvtr.functional.first_places import check_sure, expected_truth, sure_first
from mmvtr.functional.tiles import inner_products
from mmvtr.registry import HOOKS, TASK_UTILS
from mmvtr.structures import Directed


@HOOKS.register_module()
class SureFirstHook(TransformHook):
    """Where clips ask for texts, the best-scored text that surely holds comes first.

    Where none is that sure, it is the surest.

    How surely: the model's softmax over the gallery says which text was written for the clip, and
    the captions of the training set say what such a text implies
    (:func:`~mmvtr.functional.expected_truth`, :func:`~mmvtr.functional.sure_first`).  No training
    is changed, no test label is read, and a clip's list does not depend on other clips; t2v stays
    as it is.  docs/agreement.md says what it gives and what it takes.

    Args:
        captions: config of the training set, or the set itself, whose captions say which words
            imply which.  Its annotations alone are read, never a video or a feature.
        sure: in [0, 1], how surely a first text has to hold.
        temperature: of the softmax; None = the model's.
        places: how many texts are first.
        witness: config of what reads the captions: ``learn(videos, texts)`` and
            ``among(captions)``.
        name: of its results.

    Raises:
        ValueError: ``sure`` outside [0, 1], ``places`` below 1, a temperature that is not positive;
            (before a run) no training clip has two captions.
    """

    default_name = 'sure_first'

    def __init__(
        self,
        *,
        captions: Any,
        sure: float = 0.8,
        temperature: Optional[float] = None,
        places: int = 1,
        witness: Mapping[str, Any] = dict(type='CaptionImplication'),
        name: Optional[str] = None,
    ) -> None:
        super().__init__(name=name)
        check_sure(sure)
        check_temperature(temperature)
        if places < 1:
            raise ValueError(f'places must be 1 or more, not {places}')
        self.captions = captions
        self.sure, self.temperature, self.places = sure, temperature, places
        self.witness = TASK_UTILS.build(dict(witness))
        self._learnt = False

    def before_run(self, runner: Runner) -> None:
        """Read the training captions, in all processes: building a dataset may wait for others."""
        if not self._learnt:
            data = read_annotations(self.captions)
            self.witness.learn(data.videos, data.texts)
            self._learnt = True

    def transformed(self, runner: Runner, evaluation: Evaluation) -> Directed:
        loop = runner.test_loop if evaluation.mode == 'test' else runner.val_loop
        texts = loop.dataloader.dataset.texts
        gallery = [texts[place]['text'] for place in evaluation.texts.index.tolist()]
        logs = inner_products(*self.witness.among(gallery), device=evaluation.device)
        implied = logs._replace(columns=lambda part: logs.columns(part).clamp_(max=0).exp_())
        scores = evaluation.matrices['scores']
        asked = scores.t().to(evaluation.device)
        temperature = temperature_of(self.temperature, evaluation)
        truth = expected_truth(asked, implied, temperature=temperature)
        v2t = sure_first(asked, truth, sure=self.sure, places=self.places).t()
        found = float((truth.amax(1) >= self.sure).float().mean())
        evaluation.notes[self.name] = (
            f'v2t alone, temperature {temperature:.4g}; {100 * found:.0f} % of the clips have a '
            f'text that holds with {self.sure:g} or more, the others begin with the surest'
        )
        return Directed(scores.cpu(), v2t.cpu())
