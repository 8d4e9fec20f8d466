//go:build tools

// Package helm pins the helm that renders the chart in the tests.
package helm

import (
	_ "helm.sh/helm/v3/cmd/helm"
)
