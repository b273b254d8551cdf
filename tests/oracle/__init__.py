"""A float64 oracle for every operator of Quire, written from the definitions in docs/."""
