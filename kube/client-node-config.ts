// The one class of client-node that Windlass uses. Imported from here, the rest of the package stays out of the bundles.
export { KubeConfig } from '@kubernetes/client-node';
