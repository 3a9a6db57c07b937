"""Supervisions that fill the slot ``teacher``: what the scores of a batch should be."""

from mmvtr.models.supervisions.teachers.frames import StoredFrameTeacher
from mmvtr.models.supervisions.teachers.relevance_teacher import RelevanceTeacher
from mmvtr.models.supervisions.teachers.scores import FrozenTeachers, StoredTeachers

__all__ = ['FrozenTeachers', 'RelevanceTeacher', 'StoredFrameTeacher', 'StoredTeachers']
