// The pages of focalibrate: one of a comparison of calibrators, or of models.

import './style.css';
import type { ModelsDocument, ReportDocument } from './document';
import { modelsPage } from './models';
import { reportPage } from './report';
import { start } from './start';

start<ReportDocument | ModelsDocument>((doc) => ('kind' in doc ? modelsPage(doc) : reportPage(doc)));
