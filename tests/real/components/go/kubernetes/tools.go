//go:build tools

// Package tools names the programs that tests build; go.mod and go.sum pin them, and all that they need.
package tools

import (
	_ "go.etcd.io/etcd/server/v3"
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
)
