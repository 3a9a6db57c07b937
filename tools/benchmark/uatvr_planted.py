"""UATVR's parts over seeds, on the planted corpus with 60 % general captions.

    python tools/benchmark/uatvr_planted.py [--out docs/benchmark/uatvr_planted.json] [--jobs 2]
        [--methods TI "TI + DSA"]

Token-wise matching (TI), extra tokens (DSA), probabilistic heads (DUA, KL) in several forms, and a
control with more parameters than any of them.  The same schedule for all; nothing is tuned.
"""

from __future__ import annotations

from pathlib import Path

from planted_runs import WORK, arguments, make_features, over_seeds, table, train, write

TI = 'configs/ti_planted_features.py'
UATVR = 'configs/uatvr_planted_features.py'
LETTER = ['model.objectives.dua.temperature=1.0', 'model.objectives.dua.normalise=False']
# What Tab. 2 counts beside the printed equations: configs/_base_/uatvr_vitb32.py.
WEIGHTS = ['model.similarity.weights=uatvr', 'model.similarity.dim=128']
COUNTED = [*WEIGHTS, 'model.heads.type=PCMEGaussianHead']
METHODS = {
    'TI': (TI, []),
    'TI, 2 layers (more parameters than all below)': (TI, ['model.encoder.temporal_layers=2']),
    'TI, learnt token weights': (TI, WEIGHTS),
    'TI + DSA': (TI, ['model.encoder.extra_frames=3', 'model.encoder.extra_words=2']),
    'TI + DUA + KL': (UATVR, ['model.encoder.extra_frames=0', 'model.encoder.extra_words=0']),
    'UATVR (TI + DSA + DUA + KL)': (UATVR, []),
    'UATVR, learnt token weights and PCME heads': (UATVR, COUNTED),
    'UATVR, Eq. 11 to the letter': (UATVR, LETTER),
    'UATVR, soft contrast (rows * of Tab. 1)': (UATVR, ['model.objectives.dua.type=SoftContrast']),
}
COLUMNS = {
    'retrieval/rsum': 'rsum',
    'retrieval/t2v_R1': 't2v R@1',
    'retrieval/v2t_R1': 'v2t R@1',
    'semantic/t2v_mAP': 't2v mAP',
    'semantic/v2t_mAP': 'v2t mAP',
    'uncertainty/general_auc': 'AUC of text sigma',
    'uncertainty/general_auc_scores': 'AUC of 1 - best score',
    'uncertainty/t2v_rejection': 'rejection by sigma',
    'uncertainty/t2v_rejection_scores': 'rejection by best score',
    'uncertainty/sigma_mean_text': 'sigma of texts',
}


def run(name: str, seed: int) -> dict[str, float]:
    """Test results of a method."""
    config, options = METHODS[name]
    folder = WORK / 'uatvr_planted' / f'{list(METHODS).index(name)}_{Path(config).stem}_{seed}'
    return train(config, folder, seed, options)['test']


def main() -> None:
    args = arguments(__doc__, 'docs/benchmark/uatvr_planted.json', list(METHODS))
    make_features()
    results = over_seeds(run, args.methods, args.seeds, args.jobs)
    methods = {name: METHODS[name] for name in args.methods}
    rows = write(args.out, results, COLUMNS, seeds=args.seeds, methods=methods)
    print(table(rows, COLUMNS))


if __name__ == '__main__':
    main()
