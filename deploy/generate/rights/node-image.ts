import { group } from '../../../api/core/well-known.ts';
import type { Rights } from './right.ts';

const nodeImages = { group: group.apps, resources: ['nodeimages'] } as const;
const status = { group: group.apps, resources: ['nodeimages/status'] } as const;

export const nodeImageRights: Rights = {
  watcher: [
    {
      why: 'which images each node is to have',
      ...nodeImages,
      verbs: ['get', 'list', 'watch', 'create', 'patch', 'delete'],
    },
    { why: 'progress of nodes', ...status, verbs: ['patch'] },
  ],
  worker: [
    { why: 'what to pull', ...nodeImages, verbs: ['get'] },
    { why: 'progress of pulls, and what operators command', ...status, verbs: ['patch'] },
  ],
  daemon: [
    { why: 'which Secrets and which sandbox a pull takes, read when it begins', ...nodeImages, verbs: ['get'] },
    {
      why: 'progress of a long pull; the policy in daemon-image-policy.yaml allows nothing else',
      ...status,
      verbs: ['patch'],
    },
  ],
};
