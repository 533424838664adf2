package manager_test

func commandMain() {}
