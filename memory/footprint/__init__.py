"""Three ways to one `Footprint`: a formula (instant), the compiler's account, and a measurement."""
