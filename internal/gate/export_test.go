package gate

// BuiltinPolicy is the policy that is built in.
var BuiltinPolicy = builtinPolicy
