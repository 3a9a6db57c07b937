"""Components that studies alone use; configs import them: ``PYTHONPATH=projects/lab/evidence``."""
