import { apiVersionOf, type Resource } from '../../../api/core/meta.ts';
import { unknownPath } from './refusals.ts';

/** A kind that is discovered. */
export interface Served {
  readonly resource: Resource;
  readonly hasScale: boolean;
}

/** The subresources of pods, which say how old a server is, and what is served besides. */
export function discover(method: string, path: string, served: readonly Served[] = []): object {
  const of = served.filter(({ resource }) => path === pathOf(resource));
  if (method !== 'GET' || (path !== '/api/v1' && of.length === 0)) throw unknownPath();
  const pods = ['pods', 'pods/status', 'pods/resize'].map((name) => ({ name, kind: 'Pod', namespaced: true }));
  const others = of.flatMap(({ resource: { plural, kind, namespaced }, hasScale }) => [
    { name: plural, kind, namespaced },
    ...(hasScale ? [{ name: `${plural}/scale`, kind: 'Scale', namespaced }] : []),
  ]);
  const resources = [...(path === '/api/v1' ? pods : []), ...others];
  return { kind: 'APIResourceList', groupVersion: path.split('/').slice(2).join('/'), resources };
}

function pathOf(resource: Resource): string {
  return `/${resource.group === '' ? 'api' : 'apis'}/${apiVersionOf(resource)}`;
}
