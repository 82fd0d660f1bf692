// The one class of client-node that Windlass uses. Importing it from here keeps the rest of the package out of the
// bundles.
export { KubeConfig } from '@kubernetes/client-node';
