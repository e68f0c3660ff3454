package policy

import "fmt"

// CheckPaths refuses a setting of policy paths other than the two of D5: a file elsewhere would be read by some services and
// not by others, and would not be protected (RG-345). Empty means the default.
func CheckPaths(paths []string) error {
	if len(paths) == 0 || (len(paths) == 2 && paths[0] == PolicyPath && paths[1] == FallbackPolicyPath) {
		return nil
	}
	return fmt.Errorf("COUNTERSIGN_POLICY_PATHS is %v: this release reads %s and %s; unset it", paths, PolicyPath, FallbackPolicyPath)
}
