import { group } from '../../../api/core/well-known.ts';
import type { Rights } from './right.ts';

export const podProbeMarkerRights: Rights = {
  watcher: [
    {
      why: 'markers and their finalizer',
      group: group.apps,
      resources: ['podprobemarkers'],
      verbs: ['list', 'watch', 'patch'],
    },
    {
      why: 'how many pods a marker selects, and what could not be written',
      group: group.apps,
      resources: ['podprobemarkers/status'],
      verbs: ['patch'],
    },
  ],
};
