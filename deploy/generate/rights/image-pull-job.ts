import { group, installation } from '../../../api/core/well-known.ts';
import type { Rights } from './right.ts';

export const imagePullJobRights: Rights = {
  watcher: [
    {
      why: 'jobs of users, of lists, of CloneSets and of SidecarSets',
      group: group.apps,
      resources: ['imagepulljobs'],
      verbs: ['list', 'watch', 'create', 'patch', 'delete'],
    },
    { why: 'progress of jobs', group: group.apps, resources: ['imagepulljobs/status'], verbs: ['patch'] },
    {
      why: 'pull Secrets that a job names in its namespace; they are read one by one, never listed or watched',
      group: '',
      resources: ['secrets'],
      verbs: ['get'],
    },
    {
      why: 'the copies of pull Secrets, which daemons read',
      namespace: installation.daemonConfigNamespace,
      group: '',
      resources: ['secrets'],
      verbs: ['get', 'list', 'create', 'patch', 'delete'],
    },
  ],
  worker: [
    { why: 'jobs that operators control', group: group.apps, resources: ['imagepulljobs'], verbs: ['get'] },
    { why: 'what operators have decided', group: group.apps, resources: ['imagepulljobs/status'], verbs: ['patch'] },
  ],
  daemon: [
    {
      why: 'pull Secrets, and no other Secrets (SEC-1)',
      namespace: installation.daemonConfigNamespace,
      group: '',
      resources: ['secrets'],
      verbs: ['get'],
    },
  ],
};

export const imageListPullJobRights: Rights = {
  watcher: [
    {
      why: 'lists, from which jobs are made',
      group: group.apps,
      resources: ['imagelistpulljobs'],
      verbs: ['list', 'watch', 'patch', 'delete'],
    },
    { why: 'progress of lists', group: group.apps, resources: ['imagelistpulljobs/status'], verbs: ['patch'] },
  ],
};
