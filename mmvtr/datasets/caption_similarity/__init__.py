"""What captions of one clip say of another text: who goes with whom, before any frame is seen."""
