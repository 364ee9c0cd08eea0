// Pins the definition of ClusterNetworkPolicy; nothing is built from it.
module gpu-runtime/tests/rig/network-policy-api

go 1.26.0

require sigs.k8s.io/network-policy-api v0.2.0
