//go:build tools

// Package apiserver pins the control plane that the tests run against.
package apiserver

import (
	_ "k8s.io/kubernetes/cmd/kube-apiserver/app"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager/app"
)
