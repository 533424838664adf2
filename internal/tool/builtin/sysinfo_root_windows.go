package builtin

// rootPath is the file system that is always told.
const rootPath = `C:\`
