i64 = int
