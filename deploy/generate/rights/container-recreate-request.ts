import { group } from '../../../api/core/well-known.ts';
import type { Rights } from './right.ts';

const requests = { group: group.apps, resources: ['containerrecreaterequests'] } as const;
const status = { group: group.apps, resources: ['containerrecreaterequests/status'] } as const;

export const recreateRequestRights: Rights = {
  watcher: [
    { why: 'the cache', ...requests, verbs: ['list', 'watch'] },
    { why: 'the finalizer, the label of active requests, and the TTL', ...requests, verbs: ['patch', 'delete'] },
    {
      why: 'the reasons Queued, EngineSilent, EngineNoWorkers, EngineNoDaemon and EngineStuck',
      ...status,
      verbs: ['patch'],
    },
  ],
  webhook: [{ why: 'the pod and the node of a new request', group: '', resources: ['pods', 'nodes'], verbs: ['get'] }],
  worker: [
    { why: 'the request of an operation', ...requests, verbs: ['get'] },
    { why: 'the finalizer that stands for the key on the pod', ...requests, verbs: ['patch'] },
    { why: 'phase and progress', ...status, verbs: ['patch'] },
    {
      why: 'whether Services still send traffic to a pod that was made unready',
      group: 'discovery.k8s.io',
      resources: ['endpointslices'],
      verbs: ['list'],
    },
    {
      why: 'the same: Services that publish addresses that are not ready',
      group: '',
      resources: ['services'],
      verbs: ['get'],
    },
  ],
  daemon: [{ why: 'preStop hooks and ports, read when a container is to be stopped', ...requests, verbs: ['get'] }],
};
