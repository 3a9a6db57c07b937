# Columns of the papers' tables that have both directions.
metrics = {
    f'retrieval/{side}_{key}': f'{side} {heading}'
    for side in ('t2v', 'v2t')
    for key, heading in dict(R1='R@1', R5='R@5', R10='R@10', MdR='MdR', MnR='MnR').items()
}
