import { convertCloneSet } from '../../api/cloneset/convert.ts';
import { cloneSets } from '../../api/cloneset/types.ts';
import { convertRecreateRequest } from '../../api/container-recreate-request/convert.ts';
import { crr } from '../../api/container-recreate-request/types.ts';
import { imageListPullJobs, imagePullJobs } from '../../api/image-pull-job/types.ts';
import { relabelled } from '../../api/node-image/convert.ts';
import { nodeImages } from '../../api/node-image/types.ts';
import type { Conversion } from './convert.ts';

/** Every kind that Windlass converts; its CRD is told where. */
export const conversions: readonly Conversion[] = [
  { resource: crr, convert: convertRecreateRequest },
  { resource: cloneSets, convert: convertCloneSet },
  { resource: imageListPullJobs, convert: relabelled },
  { resource: imagePullJobs, convert: relabelled },
  { resource: nodeImages, convert: relabelled },
];
