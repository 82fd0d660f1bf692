import type { ObjectMeta } from '../../../api/core/meta.ts';
import { type EndpointSlice, type Service, serviceLabel } from '../../../plan/drain.ts';
import { metadataOf } from './metadata.ts';

const identity = { namespace: 'shop', name: 'web', uid: 'uid-web' };

/** A slice of this Service; of none for "". */
export function anEndpointSlice(
  service: string,
  endpoints: EndpointSlice['endpoints'],
  metadata: Partial<ObjectMeta> = {},
): EndpointSlice {
  const labels = service === '' ? {} : { [serviceLabel]: service };
  return {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: metadataOf(identity, { labels, ...metadata }),
    ...(endpoints !== undefined && { endpoints }),
  };
}

/** Service `web` of namespace `shop`. */
export function aService(spec: Service['spec']): Service {
  return { apiVersion: 'v1', kind: 'Service', metadata: metadataOf(identity), spec };
}
