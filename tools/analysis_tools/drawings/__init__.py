"""Pictures that several analysis tools draw."""
