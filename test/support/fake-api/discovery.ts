import { unknownPath } from './refusals.ts';

/** The subresources of pods, which say how old a server is; nothing else is discovered. */
export function discover(method: string, path: string): object {
  if (method !== 'GET' || path !== '/api/v1') throw unknownPath();
  const resources = ['pods', 'pods/status', 'pods/resize'].map((name) => ({ name, kind: 'Pod', namespaced: true }));
  return { kind: 'APIResourceList', groupVersion: 'v1', resources };
}
