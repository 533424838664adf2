package choice

// Listeners is listeners, for tests.
var Listeners = listeners
