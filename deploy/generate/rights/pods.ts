import { group } from '../../../api/core/well-known.ts';
import type { Rights } from './right.ts';

/** Rights for pods and nodes, and for features that pods request by labels, annotations and environment variables. */
export const podRights: Rights = {
  watcher: [
    { why: 'the caches', group: '', resources: ['pods', 'nodes'], verbs: ['get', 'list', 'watch'] },
    {
      why:
        'the readiness gate that all operations share; conditions, labels and annotations with results of probes; ' +
        'annotations of container launch priority, and of sidecars whose termination waits for Temporal',
      group: '',
      resources: ['pods/status'],
      verbs: ['patch'],
    },
    {
      why:
        'container launch priority: one ConfigMap for each pod that asks for it, in its namespace; the policy in ' +
        'watcher-policy.yaml limits it to them',
      group: '',
      resources: ['configmaps'],
      verbs: ['get', 'list', 'watch', 'create', 'patch', 'delete'],
    },
  ],
  worker: [
    { why: 'the pods of operations, and their nodes', group: '', resources: ['pods', 'nodes'], verbs: ['get'] },
    {
      why: 'keys of operations in the readiness gate; the phase of a pod whose sidecars do not count',
      group: '',
      resources: ['pods/status'],
      verbs: ['patch'],
    },
    {
      why: 'the one request by which sidecars of the pod of a Job are stopped',
      group: group.apps,
      resources: ['containerrecreaterequests'],
      verbs: ['create', 'delete'],
    },
    { why: 'images of such sidecars on virtual nodes', group: '', resources: ['pods'], verbs: ['patch'] },
  ],
  daemon: [
    {
      why: 'the pods of its node; get: whether a pod that its watch does not show is gone',
      group: '',
      resources: ['pods'],
      verbs: ['get', 'list', 'watch'],
    },
    {
      why:
        'the annotation about the containers that run, and the gate of an update in place; the policies in ' +
        'daemon-node-policy.yaml allow nothing else',
      group: '',
      resources: ['pods/status'],
      verbs: ['patch'],
    },
    { why: 'its own Node, whose UID names its task queue', group: '', resources: ['nodes'], verbs: ['list', 'watch'] },
  ],
};
