import { group } from '../../../api/core/well-known.ts';
import type { Rights } from './right.ts';

export const nodePodProbeRights: Rights = {
  watcher: [
    {
      why: 'what each node probes; only its daemon writes the results',
      group: group.apps,
      resources: ['nodepodprobes'],
      verbs: ['get', 'list', 'watch', 'create', 'patch', 'delete'],
    },
  ],
  daemon: [
    { why: 'what it probes', group: group.apps, resources: ['nodepodprobes'], verbs: ['list', 'watch'] },
    { why: 'the results of its probes', group: group.apps, resources: ['nodepodprobes/status'], verbs: ['patch'] },
  ],
};
