library(testthat)
library(backplane)

test_check("backplane")
