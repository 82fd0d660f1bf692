import { isJsonList, isJsonObject, type JsonObject } from '../api/base/json.ts';
import type { Converted } from '../api/core/converted.ts';
import type { Resource } from '../api/core/meta.ts';
import { type Answer, isTooDeep, MalformedBody, type Route } from './server/server.ts';

/** A kind with several versions that Windlass converts. */
export interface Conversion {
  readonly resource: Resource;
  /** The object in that version; undefined where one of the two versions is unknown. */
  readonly convert: (object: JsonObject, apiVersion: string) => Converted | undefined;
}

const versions: readonly unknown[] = ['apiextensions.k8s.io/v1', 'apiextensions.k8s.io/v1beta1'];
/** The number of objects that the error message of a list names; the message appears in the user's terminal. */
const namedFailures = 10;

/**
 * Answers ConversionReviews. The API server accepts all objects of a review or none, so an object that cannot be
 * converted fails the review; the message names each such object and the reason.
 */
export function conversionRoute(conversions: readonly Conversion[], onWarning?: (warning: string) => void): Route {
  return (body) => {
    const { apiVersion, uid, desired, objects } = parseReview(body);
    const convertedObjects: JsonObject[] = [];
    const failures: string[] = [];
    for (const [index, object] of objects.entries()) {
      const converted = convertOne(conversions, object, desired);
      if (typeof converted === 'string') {
        failures.push(`object ${index}${nameOf(object)}: ${converted}`);
        continue;
      }
      convertedObjects.push(converted.object);
      for (const warning of converted.warnings) onWarning?.(`object ${index}${nameOf(object)}: ${warning}`);
    }
    for (const failure of failures.slice(0, namedFailures)) onWarning?.(failure);
    return failures.length === 0
      ? answer(apiVersion, { uid, convertedObjects, result: { status: 'Success' } }, 'converted')
      : answer(apiVersion, { uid, convertedObjects: [], result: failed(failures, desired) }, 'refused');
  };
}

/** The converted object, or the reason why there is none. */
function convertOne(conversions: readonly Conversion[], object: unknown, desired: string): Converted | string {
  if (!isJsonObject(object)) return 'it is not an object';
  if (object.apiVersion === desired) return { object, warnings: [] };
  const conversion = conversions.find(
    ({ resource }) => resource.kind === object.kind && groupOf(object.apiVersion) === resource.group,
  );
  if (conversion === undefined)
    return `kind "${object.kind}" of "${object.apiVersion}" is not converted by this webhook`;
  try {
    return conversion.convert(object, desired) ?? `"${object.apiVersion}" cannot be converted to "${desired}"`;
  } catch (error) {
    if (isTooDeep(error)) throw error;
    return error instanceof Error ? error.message : String(error);
  }
}

function parseReview(body: unknown): {
  readonly apiVersion: string;
  readonly uid: string;
  readonly desired: string;
  readonly objects: readonly unknown[];
} {
  if (!isJsonObject(body) || body.kind !== 'ConversionReview' || !versions.includes(body.apiVersion)) {
    throw new MalformedBody('The body is not a ConversionReview of apiextensions.k8s.io/v1 or v1beta1');
  }
  const { request } = body;
  if (!isJsonObject(request)) throw new MalformedBody('The ConversionReview has no request');
  const { uid, desiredAPIVersion: desired, objects } = request;
  if (typeof uid !== 'string' || uid === '') throw new MalformedBody('request.uid is missing');
  if (typeof desired !== 'string') throw new MalformedBody('request.desiredAPIVersion is missing');
  if (!isJsonList(objects)) throw new MalformedBody('request.objects is not a list');
  return { apiVersion: String(body.apiVersion), uid, desired, objects };
}

function failed(failures: readonly string[], desired: string): object {
  const named = failures.slice(0, namedFailures).join('; ');
  const more = failures.length > namedFailures ? `; and ${failures.length - namedFailures} more` : '';
  return { status: 'Failure', message: `Cannot convert to "${desired}": ${named}${more}` };
}

function answer(apiVersion: string, response: object, outcome: Answer['outcome']): Answer {
  return { status: 200, body: { apiVersion, kind: 'ConversionReview', response }, outcome };
}

function nameOf(object: unknown): string {
  const metadata = isJsonObject(object) ? object.metadata : undefined;
  if (!isJsonObject(metadata)) return '';
  const name = [metadata.namespace, metadata.name].filter((part) => typeof part === 'string').join('/');
  return name === '' ? '' : ` "${name}"`;
}

function groupOf(apiVersion: unknown): string {
  return typeof apiVersion === 'string' ? apiVersion.slice(0, Math.max(0, apiVersion.lastIndexOf('/'))) : '';
}
