import { cloneSets } from '../../../api/cloneset.ts';
import { convertCloneSet } from '../../../api/cloneset-conversion.ts';
import { convertRecreateRequest, crr } from '../../../api/container-recreate-request.ts';
import { imageListPullJobs, imagePullJobs } from '../../../api/image-pull-job.ts';
import { nodeImages, relabelled } from '../../../api/node-image.ts';
import type { Conversion } from './review.ts';

/** Every kind that Windlass converts; its CRD is told where. */
export const conversions: readonly Conversion[] = [
  { resource: crr, convert: convertRecreateRequest },
  { resource: cloneSets, convert: convertCloneSet },
  { resource: imageListPullJobs, convert: relabelled },
  { resource: imagePullJobs, convert: relabelled },
  { resource: nodeImages, convert: relabelled },
];
