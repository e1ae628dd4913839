//! A JSON scanner that checks everything and builds nothing.
