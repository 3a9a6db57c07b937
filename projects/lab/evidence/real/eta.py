"""Eta of pairs that people judged: DVTR on F, seed 0, until early eta takes its copy.

    python projects/lab/evidence/real/eta.py        # half a minute

Writes ``cells/real/stronger/eta.npz``: of each judged unannotated pair of Flickr8k's test set the
text id, the image, eta, the share of the crowd that says yes, and the experts' mean grade (NaN
where none judged).  Eta is that of the copy which would weigh the negatives from then on.
"""

from __future__ import annotations

import logging
import warnings

import numpy as np
import reading
import run
import torch
from judged import crowd_pairs, expert_pairs
from methods import METHODS, model_of
from mmengine.hooks import Hook
from mmengine.runner import Runner
from sets import SETS, in_a_sentence, prepare, shared
from training import train

from mmvtr.models.supervisions.dvtr import uncertainty
from mmvtr.registry import HOOKS

OUT = run.RESULTS / 'stronger/eta.npz'
METHOD, RATE, EPOCHS = 'dvtr_early', 2e-3, 4


@HOOKS.register_module()
class EndAfter(Hook):
    """Ends a training after some epochs of its schedule.

    Args:
        epochs: how many.
    """

    def __init__(self, epochs: int) -> None:
        self.epochs = epochs

    def after_train_epoch(self, runner: Runner) -> None:
        runner.train_loop.stop_training = runner.epoch + 1 >= self.epochs


@torch.no_grad()
def eta_of(model: torch.nn.Module, test: reading.Whole) -> torch.Tensor:
    """Eta of all pairs [T, V], by what texts and images reach with their own."""
    model.eval()
    judge = model.teacher.copy
    texts, videos = (model.encoded_by(judge, test.inputs, side) for side in ('text', 'video'))
    supervision = judge.supervision
    p = supervision.match_logits(texts, videos).sigmoid()
    own = p.masked_fill(~test.positives, 0.0)
    how = {name: getattr(supervision, name) for name in ('floor', 'sharpness', 'reference')}
    return uncertainty(p, own.amax(1, keepdim=True), own.amax(0), **how)


def main() -> None:
    warnings.simplefilter('ignore')
    logging.disable(logging.INFO)
    torch.set_num_threads(1)
    place = run.Place('F', prepare('F', SETS['F'](), run.WORK / 'F'), 'minilm')
    method, kind = METHODS[METHOD], 'minilm'
    trained = train(
        model_of(method, place.about, kind),
        reading.dataset(place.folder, 'train', kind, tuple(method.reads), method.epoch_unit),
        place.schedule,
        rate=RATE,
        rates=method.rates,
        seed=0,
        judge=lambda model: 0.0,
        hooks=[*method.hooks, dict(type='EndAfter', epochs=EPOCHS)],
        work_dir=run.WORK / 'runs/eta',
    )
    test = reading.evaluated(place.folder, 'test', 'minilm')
    eta = eta_of(trained.model, test)
    crowd, expert = crowd_pairs(shared()), expert_pairs(shared())
    texts, videos = ({x: n for n, x in enumerate(names)} for names in (test.texts, test.videos))
    pairs = [(t, v) for t, v in sorted({*crowd, *expert}) if t in texts and v in videos]
    OUT.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(
        OUT,
        text=[t for t, _ in pairs],
        image=[v for _, v in pairs],
        eta=np.array([float(eta[texts[t], videos[v]]) for t, v in pairs], 'f4'),
        crowd=np.array([crowd.get(pair, np.nan) for pair in pairs], 'f4'),
        expert=np.array([expert.get(pair, np.nan) for pair in pairs], 'f4'),
    )
    print(f'{len(pairs)} pairs, copy of step {int(trained.model.teacher.copy.supervision.step)}')


if __name__ == '__main__':
    in_a_sentence(main)
