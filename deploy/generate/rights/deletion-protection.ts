import type { Rights } from './right.ts';

export const deletionProtectionRights: Rights = {
  webhook: [
    {
      why: 'the namespace that is to be deleted, or of the object that is',
      group: '',
      resources: ['namespaces'],
      verbs: ['get'],
    },
    {
      why:
        'the contents of a protected namespace, read with gate ResourcesDeletionProtection only; the right to read the ' +
        'objects of a protected CRD is in deploy/rbac-gates',
      group: '',
      resources: ['pods', 'persistentvolumeclaims'],
      verbs: ['list'],
    },
  ],
};
